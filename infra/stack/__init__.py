"""A local stack of servers for trying schedules and jobs: `infra/up` starts it, `infra/down` ends it.

services.py   the servers: how each is started, and how it says that it is there
processes.py  processes by id and start time, in a file, so that `down` ends these and no others
up.py, down.py  the two commands
"""
