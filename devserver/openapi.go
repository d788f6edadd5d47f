package devserver

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/heteroflow/node-agent/protocol"
)

//go:generate go test -run TestOpenAPIDocumentIsFresh -update .

// OpenAPI returns the description of the whole API as YAML.
func OpenAPI() ([]byte, error) {
	features, err := Features{}.offered()
	if err != nil {
		return nil, err
	}
	s := &Server{features: features}
	document, err := s.api(http.NewServeMux()).OpenAPI().YAML()
	if err != nil {
		return nil, fmt.Errorf("encode API description: %w", err)
	}
	return document, nil
}

// wordTable lists the values of each enumeration that this release knows.
type wordTable map[reflect.Type][]any

func add[W ~string](table wordTable, known []W) {
	for _, w := range known {
		table[reflect.TypeFor[W]()] = append(table[reflect.TypeFor[W]()], string(w))
	}
}

func words() wordTable {
	table := wordTable{}
	add(table, protocol.TaskStatuses())
	add(table, protocol.Reasons())
	add(table, protocol.TaskTypes())
	add(table, protocol.NetworkModes())
	add(table, protocol.IPCModes())
	add(table, protocol.PortProtocols())
	add(table, protocol.HealthCheckTypes())
	add(table, protocol.HealthStates())
	add(table, protocol.NodeStates())
	add(table, protocol.DrainSources())
	add(table, protocol.ExecModes())
	add(table, protocol.DeviceTypes())
	add(table, protocol.DeviceHealths())
	add(table, protocol.MIGModes())
	add(table, protocol.SliceKinds())
	add(table, protocol.SliceActions())
	add(table, protocol.ImageActions())
	add(table, protocol.ImageMatches())
	add(table, protocol.FileActions())
	add(table, protocol.FileTypes())
	add(table, protocol.ChecksumAlgorithms())
	add(table, protocol.ModelFormats())
	add(table, protocol.ModelSources())
	add(table, protocol.EngineSources())
	add(table, protocol.PullPurposes())
	add(table, protocol.RequestStatuses())
	add(table, protocol.RequestReasons())
	return table
}

// describeResults adds what goes into RequestUpdate.Result, which no operation
// names.
func describeResults(registry huma.Registry) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[protocol.SliceResult](), reflect.TypeFor[protocol.ImageResult](), reflect.TypeFor[protocol.FileResult](),
	} {
		registry.Schema(typ, true, "")
	}
}

// describeWords adds the known words to every property that is an
// enumeration: as x-extensible-enum, because unknown words are legal.
func describeWords(document *huma.OpenAPI) {
	registry, table := document.Components.Schemas, words()
	for name, schema := range registry.Map() {
		typ := registry.TypeFromRef("#/components/schemas/" + name)
		for _, field := range reflect.VisibleFields(structOf(typ)) {
			jsonName, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			property := schema.Properties[jsonName]
			target := property
			typ := field.Type
			if typ.Kind() == reflect.Slice && property != nil {
				typ, target = typ.Elem(), property.Items
			}
			if known, ok := table[typ]; ok && target != nil {
				target.Extensions = map[string]any{"x-extensible-enum": known}
			}
		}
	}
}

func structOf(typ reflect.Type) reflect.Type {
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == nil || typ.Kind() != reflect.Struct {
		return reflect.TypeFor[struct{}]()
	}
	return typ
}
