package client

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/config"
)

// keyring holds the system key and reads it again after it was refused, so that a
// corrected file heals the agent. It logs the change of state, not each refusal.
type keyring struct {
	read    func() (config.Secret, error)
	log     *zap.Logger
	refused atomic.Bool

	mu  sync.Mutex
	key config.Secret
}

func (k *keyring) get() (config.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != "" && !k.refused.Load() {
		return k.key, nil
	}
	key, err := k.read()
	if err != nil {
		return "", err
	}
	k.key = key
	return key, nil
}

// note takes the outcome of a call that the server answered.
func (k *keyring) note(err error) {
	switch {
	case errors.Is(err, ErrUnauthorized):
		if !k.refused.Swap(true) {
			k.log.Error("the control plane refuses the system key: put the right key into the key file, or correct the server's; trying on", zap.Error(err))
		}
	case errors.Is(err, ErrRetryable):
		// A proxy may have answered: this says nothing of the key.
	default:
		if k.refused.Swap(false) {
			k.log.Info("the control plane accepts the system key again")
		}
	}
}
