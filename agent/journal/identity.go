package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.uber.org/zap"
)

const identityKey = "identity"

// identity is the record that says whose state this is.
type identity struct {
	MachineID string `json:"machine_id"`
}

func openIdentity(j *Journal) (*Collection[identity], error) {
	return NewCollection(j, machine, Limits[identity]{Max: 1})
}

// machineOf reads a file of the record.
func machineOf(data []byte) (string, error) {
	r, err := decode(machine, identityKey, data)
	if err != nil {
		return "", err
	}
	var id identity
	if err := json.Unmarshal(r.Data, &id); err != nil {
		return "", fmt.Errorf("parse data: %w", err)
	}
	return id.MachineID, nil
}

// identify compares the machine that wrote the state with this one. Only a known
// difference makes it foreign; where either side is unknown the state is kept, because
// losing what is owed is worse than the rare clone that lacks its mark.
func (j *Journal) identify(machineID string) error {
	ids, err := openIdentity(j)
	if err != nil {
		return err
	}
	if machineID == "" {
		j.log.Warn("machine id unavailable: stored state is used without checking that this machine wrote it")
		return nil
	}
	stored, ok, err := ids.Get(identityKey)
	if err != nil {
		return err
	}
	if ok && stored.MachineID == machineID {
		return nil
	}
	if ok {
		if err := j.setForeignAside(); err != nil {
			return fmt.Errorf("set aside the state of another machine (cloned disk?) in %s: %w; move it away by hand", j.dir, classify(err))
		}
		if ids, err = openIdentity(j); err != nil {
			return err
		}
	}
	if err := ids.Put(identityKey, identity{MachineID: machineID}); err != nil {
		j.log.Warn("machine id not recorded", zap.Error(err))
	}
	return nil
}

// setForeignAside moves every collection to foreign-<now>/ and forgets the identity read
// from there.
func (j *Journal) setForeignAside() error {
	if err := j.forget(machine); err != nil {
		return err
	}
	to := freeName(j.root, "foreign-"+j.now().UTC().Format(timeFormat))
	if err := j.root.Mkdir(to, dirPerm); err != nil {
		return err
	}
	for _, kind := range kinds {
		err := j.root.Rename(string(kind), filepath.Join(to, string(kind)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	moved, err := j.root.OpenRoot(to)
	if err != nil {
		return err
	}
	if err := errors.Join(syncDir(moved), moved.Close(), syncDir(j.root)); err != nil {
		return err
	}
	path := filepath.Join(j.dir, to)
	j.log.Error("state of another machine set aside: this looks like a cloned disk", zap.String("now_at", path))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.foreign = path
	return nil
}
