"""The service killed by SIGKILL at labelled steps, and what its clients were told held against what is there."""
