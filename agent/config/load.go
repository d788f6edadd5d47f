package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

// DefaultFile is read when no other file is named, and need not exist.
const DefaultFile = "/etc/heteroflow/agent.yaml"

const envPrefix = "HETEROFLOW_"

// maxFileSize is far above any sane configuration and far below what hurts.
const maxFileSize = 1 << 20

// Sources is where a configuration comes from.
type Sources struct {
	File    string   // empty: DefaultFile, if it exists
	Environ []string // as os.Environ gives it
	Set     []string // KEY=VALUE from the command line
}

// Load merges the sources over the defaults and validates the result. The error lists
// every problem there is.
func Load(src Sources) (Config, error) {
	cfg, err := Read(src)
	return cfg, errors.Join(err, cfg.Validate())
}

// Read merges the sources over the defaults without asking whether the result is enough to
// run an agent: for commands that use a part of it, and validate that. The error lists
// every setting that does not exist or cannot be read.
func Read(src Sources) (Config, error) {
	k := koanf.New(".")
	problems := []error{loadFile(k, src.File), loadEnv(k, src.Environ), loadSet(k, src.Set), unknownKeys(k)}

	cfg := Default()
	decoder := &mapstructure.DecoderConfig{
		Result:           &cfg,
		WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			durationNeedsUnit,
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToSliceHookFunc(","),
		),
	}
	if err := k.UnmarshalWithConf("", &cfg, koanf.UnmarshalConf{DecoderConfig: decoder}); err != nil {
		problems = append(problems, err)
	}
	return cfg, errors.Join(problems...)
}

func loadFile(k *koanf.Koanf, file string) error {
	optional := file == ""
	if optional {
		file = DefaultFile
	}
	data, err := readBounded(file)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := k.Load(rawbytes.Provider(data), yaml.Parser()); err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	return nil
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxFileSize)
	}
	return data, nil
}

// loadEnv takes the variables that name a setting. Others with the prefix are left to
// unknownKeys, so that a typing error is not passed over.
func loadEnv(k *koanf.Koanf, environ []string) error {
	names := make(map[string]string)
	for _, key := range Keys() {
		names[key.Env] = key.Name
	}
	provider := env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			if key, ok := names[name]; ok {
				return key, value
			}
			return "environment." + name, value
		},
	})
	if err := k.Load(provider, nil); err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	return nil
}

func loadSet(k *koanf.Koanf, set []string) error {
	values := make(map[string]any)
	var errs []error
	for _, kv := range set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("--set %s: want KEY=VALUE", kv))
			continue
		}
		values[key] = value
	}
	if err := k.Load(confmap.Provider(values, "."), nil); err != nil {
		errs = append(errs, fmt.Errorf("read --set: %w", err))
	}
	return errors.Join(errs...)
}

func unknownKeys(k *koanf.Koanf) error {
	known := make(map[string]bool)
	for _, key := range Keys() {
		known[key.Name] = true
	}
	var errs []error
	for _, key := range slices.Sorted(slices.Values(k.Keys())) {
		if name, ok := strings.CutPrefix(key, "environment."); ok {
			errs = append(errs, fmt.Errorf("environment variable %s: no such setting", name))
		} else if !known[key] {
			errs = append(errs, fmt.Errorf("%s: no such setting", key))
		}
	}
	return errors.Join(errs...)
}

// durationNeedsUnit refuses bare numbers, which would silently be nanoseconds.
func durationNeedsUnit(from, to reflect.Type, value any) (any, error) {
	if to == reflect.TypeFor[time.Duration]() && from != to && from.Kind() != reflect.String {
		return nil, fmt.Errorf("duration %v needs a unit, like %vs", value, value)
	}
	return value, nil
}
