"""Why a pod fits or does not: the command and the endpoint."""
