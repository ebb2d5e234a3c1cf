"""The job queue as a domain of fsm: its model, its log, the queue under test, and a command."""

from fsm.entry_points import Domain, DomainCommand

DOMAIN = Domain(name="jobs", about="Job queues with workers.", models="fsm_jobs:models")
COMMAND = DomainCommand(
    about="Count the attempts of each job in a log.", heading="Job queues", target="fsm_jobs.attempts:command"
)
