package journal

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The journal behaves as a map with an order, whatever is done to it and however often it
// is closed and opened again.
func TestJournalBehavesAsAnOrderedMap(t *testing.T) {
	limits := Limits[result]{Max: 4, Settled: func(r result) bool { return r.Settled }}
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(parent, "") //nolint:usetesting // rapid.T has no TempDir
		if err != nil {
			t.Fatal(err)
		}
		var j *Journal
		var c *Collection[result]
		open := func() {
			if j, err = Open(dir, Options{MachineID: "m"}); err != nil {
				t.Fatal(err)
			}
			if c, err = NewCollection(j, Results, limits); err != nil {
				t.Fatal(err)
			}
		}
		open()
		defer func() { _ = j.Close() }()
		model, order := map[string]result{}, []string{}
		forget := func(key string) {
			delete(model, key)
			order = slices.DeleteFunc(order, func(k string) bool { return k == key })
		}
		key := rapid.Custom(func(t *rapid.T) string { return "k" + strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "k")) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := key.Draw(t, "key")
				v := result{Status: rapid.String().Draw(t, "status"), Settled: rapid.Bool().Draw(t, "settled")}
				_, exists := model[k]
				settled := slices.IndexFunc(order, func(k string) bool { return model[k].Settled })
				err := c.Put(k, v)
				if !exists && len(order) == limits.Max {
					if settled < 0 {
						if !errors.Is(err, ErrFull) {
							t.Fatalf("Put = %v, want ErrFull", err)
						}
						return
					}
					forget(order[settled])
				}
				if err != nil {
					t.Fatal(err)
				}
				if model[k] = v; !exists {
					order = append(order, k)
				}
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if err := c.Delete(k); err != nil {
					t.Fatal(err)
				}
				forget(k)
			},
			"restart": func(t *rapid.T) {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				open()
			},
			"": func(t *rapid.T) {
				all, err := c.All()
				if err != nil {
					t.Fatal(err)
				}
				got, keys := map[string]result{}, []string{}
				for _, e := range all {
					got[e.Key] = e.Value
					keys = append(keys, e.Key)
				}
				if diff := cmp.Diff(order, keys); diff != "" {
					t.Fatalf("order (-want +got):\n%s", diff)
				}
				if !maps.Equal(model, got) {
					t.Fatalf("records (-want +got):\n%s", cmp.Diff(model, got))
				}
			},
		})
	})
}
