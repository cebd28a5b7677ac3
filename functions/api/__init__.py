"""The HTTP and MCP door."""
