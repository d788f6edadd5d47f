package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Key is one setting, as the reference page and the environment name it.
type Key struct {
	Name    string // "server.url"
	Env     string // "HETEROFLOW_SERVER_URL"
	Type    string // "string", "duration", "integer", "boolean" or "list"
	Default string // as written in the file; empty: none
	Doc     string
}

// Keys lists every setting in the order of the struct.
func Keys() []Key {
	return appendKeys(nil, "", reflect.ValueOf(Default()))
}

func appendKeys(keys []Key, prefix string, v reflect.Value) []Key {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name := prefix + field.Tag.Get("koanf")
		if value.Kind() == reflect.Struct {
			keys = appendKeys(keys, name+".", value)
			continue
		}
		typ, def := describe(value)
		keys = append(keys, Key{Name: name, Env: envName(name), Type: typ, Default: def, Doc: field.Tag.Get("doc")})
	}
	return keys
}

func envName(key string) string {
	return "HETEROFLOW_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func describe(v reflect.Value) (typ, def string) {
	switch value := v.Interface().(type) {
	case time.Duration:
		return "duration", value.String()
	case string:
		return "string", value
	case []string:
		return "list", strings.Join(value, ",")
	case bool:
		return "boolean", fmt.Sprint(value)
	case int, int64:
		return "integer", fmt.Sprint(value)
	case float64:
		return "number", fmt.Sprint(value)
	default:
		panic("config: no description for a field of type " + v.Type().String())
	}
}
