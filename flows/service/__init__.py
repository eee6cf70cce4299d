"""The service: normalisation, fine-tuned models, entity linking and de-identification over HTTP, and a page of its own.

    settings.py    what is offered, where, and the limits          worker.py   a process that holds one engine
    engines.py     what a worker does with texts                   lane.py     the queue before a worker, in batches
    forms.py       requests and answers, checked and documented    guard.py    keys, headers, limits on bodies, metrics
    app.py         the endpoints                                   running.py  socket, signals, start and stop

Each engine runs in a process of its own. So a long text does not delay other requests, and a text that takes too long
is ended for good: its worker is killed and started again.
"""
