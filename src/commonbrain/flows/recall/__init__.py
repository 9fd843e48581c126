"""The read path: pipeline over plan, arms, fuse and weigh; packing is the domain's."""
