"""The paper's words as numbers, and what it leaves open.

What the paper leaves open, and what was taken for it:

- *Partitions*: 20. Four servers of 20 cores each is all that is said. With fewer, hashing is more even;
  with more, the heaviest key is a larger part of a partition. The figure `load` has 4, 8, 20 and 50.
- *Rate*: by "50 [µs] processing time/message was just before the system is overloaded (tail latencies
  become really long)". A system is overloaded once its busiest partition is, so the rate is that at
  which this partition is 98 % busy under key hashing and 50 µs. Between 10 and 50 µs the rate stays.
  `load` shows what comes of 50 to 105 %.
- *Fixed cost*: what a message costs a consumer besides its processing is not said. Without one, the
  busiest partition that is 98 % busy at 50 µs is 39 % busy at 20 µs, where nobody waits and nothing can
  be gained, and the paper's two reductions contradict each other. With 250 µs to fetch, decode and
  acknowledge a message it is 88 % busy at 20 µs. The figure `fixed` has 0 to 1000 µs.
- *Counting window*: 10 s, as long as the decision interval, which is given. `times` has others.
- *Hot*: 100 messages in a window, as in the paper's long run. Under the dynamic load, at 20 ms a
  message, a window has 5000 messages only; there a thousandth of them makes a key hot.
- *Threshold of Figure 9*, "flows that account for 10 % or more of the messages received": no key of
  its generator has more than 4.5 %, and "keeping this threshold as low as possible allows us to keep
  the number of keys being tracked lower", so it must be the share that the heaviest keys have
  together. Both readings are run; claims are judged by this one.
- *Dynamic load*: by how many keys the generator is shifted is not said. "A few new streams are
  introduced … a few streams stop altogether" is a small shift (10), by which claims are judged; the
  14 K hot keys of the long run need one of about 1000 a minute, which is shown beside it. The load is
  half of what consumers could do if it were even, so that hashing is near its limit in some minutes
  and not in others.
- *ms and µs*: §III-B has 50 µs and 50 ms for the same experiment, and 20 ms for Figure 10. Taken as
  50 µs and 20 ms; in the simulator only the relation of service time and rate matters, and that of
  both to the 10 s of the interval.
- *Hand-over*: 5 ms from "done" to the new consumer; what the paper's took is not said. `times` has a
  second.
"""

# The paper's words as numbers, where it gives none itself.
SAME = 1.10  #: "indistinguishable", "nearly identical", "no significant impact": within a tenth
ABOUT = 1.25  #: "~", "no more than … or so": within a quarter
SHARPLY = 1.5  #: "drops sharply", "significantly improve", "degrades": a factor of 1.5
FEW = 10  #: keys a minute: "a few new streams are introduced", "a few streams stop"
GROWS = 0.8  #: the rank correlation from which on something "keeps increasing"

KEY, SMALOPS, SHUFFLE = "key", "smalops", "shuffle"
