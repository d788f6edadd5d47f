package hostfs

import "tags.cncf.io/container-device-interface/specs-go"

// Mount binds a file or directory to the same path. What is bound is what the host's links
// lead to.
func (h FS) Mount(name string) (*specs.Mount, error) {
	found, err := h.Follow(name)
	if err != nil {
		return nil, err
	}
	return h.Bind(found, name), nil
}

// Bind binds a file or directory, whose path has no links, to a path of the container,
// read-only. It has no options that Docker's own mounts lack, so that a container is the
// same whoever makes it. Neither setuid programs nor device nodes below it could be used
// anyway: containers have no_new_privs and a device cgroup.
func (h FS) Bind(found, target string) *specs.Mount {
	return &specs.Mount{HostPath: h.toEngine(found), ContainerPath: target, Options: []string{"ro", "rbind", "rprivate"}}
}
