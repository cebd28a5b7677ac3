"""The executor on AWS: a container-image function that runs one program at a time, for one tenant."""
