package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

func (r *Runtime) newClient() (*client.Client, error) {
	return client.New(client.WithHost(r.host), client.WithUserAgent("heteroflow-agent"))
}

// api returns a client for the API version the daemon speaks. A client's version never
// rises again once negotiated, so a new client is made after each loss of contact:
// that is when a daemon may have been upgraded.
func (r *Runtime) api(ctx context.Context) (*client.Client, error) {
	if c := r.negotiated.Load(); c != nil {
		return c, nil
	}
	c, err := r.newClient()
	if err != nil {
		return nil, err
	}
	if _, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r.forget(r.negotiated.Swap(c))
	return c, nil
}

// forget makes the next call negotiate anew, if c is still the client in use. Calls
// under way on c are not disturbed.
func (r *Runtime) forget(c *client.Client) {
	if c == nil {
		return
	}
	r.negotiated.CompareAndSwap(c, nil)
	r.root.Store(nil)
	_ = c.Close() // only drops idle connections, and never fails
}

// call does one request within limit, 0 for as long as ctx lasts, and gives its error
// a class.
func (r *Runtime) call(ctx context.Context, limit time.Duration, do func(context.Context, *client.Client) error) error {
	bounded, cancel := context.WithCancel(ctx)
	if limit > 0 {
		bounded, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	api, err := r.api(bounded)
	if err == nil {
		err = do(bounded, api)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		err = fmt.Errorf("%w: no answer from docker at %s within %v", runtime.ErrUnavailable, r.host, limit)
	default:
		err = classify(err, anyCall)
	}
	if errors.Is(err, runtime.ErrUnavailable) {
		r.forget(api)
	}
	return err
}
