@rem npm's start script says `exec`, so that a signal to npm ends the service. Windows has no such command but this.
@%*
