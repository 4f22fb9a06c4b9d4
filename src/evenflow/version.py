"""The version of this package, for whatever stands below its top level."""

VERSION = "0.2.0"
