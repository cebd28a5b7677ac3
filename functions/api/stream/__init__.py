"""The streaming function: the application under uvicorn, behind Lambda Web Adapter and a function URL."""
