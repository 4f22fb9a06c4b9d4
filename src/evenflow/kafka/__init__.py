"""Kafka: a broker for tests and demos, the gateway that writes to it, the consumer that keeps order."""
