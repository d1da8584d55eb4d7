"""The ASGI application: route, body, limits, answer."""
