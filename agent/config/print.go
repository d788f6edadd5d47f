package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes the configuration in effect as a file that Load reads back.
func (c Config) WriteYAML(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(tree(reflect.ValueOf(c))); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return enc.Close()
}

// tree turns a struct into a YAML mapping in field order.
func tree(v reflect.Value) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		name, value := &yaml.Node{}, &yaml.Node{}
		name.SetString(v.Type().Field(i).Tag.Get("koanf"))
		switch field := v.Field(i).Interface().(type) {
		case time.Duration:
			value.SetString(field.String())
		default:
			if v.Field(i).Kind() == reflect.Struct {
				value = tree(v.Field(i))
			} else if err := value.Encode(field); err != nil {
				panic("config: encode " + name.Value + ": " + err.Error())
			}
		}
		node.Content = append(node.Content, name, value)
	}
	return node
}

// WriteReference writes the reference page of all settings, in Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	section := ""
	for _, key := range Keys() {
		if head, _, ok := strings.Cut(key.Name, "."); ok && head != section {
			section = head
			fmt.Fprintf(&b, "\n## %s\n\n", section)
			b.WriteString(referenceTable)
		} else if !ok && section != "" {
			section = ""
			b.WriteString("\n## general\n\n" + referenceTable)
		}
		def := "–"
		if key.Default != "" {
			def = "`" + key.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key.Name, key.Type, def, key.Doc)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const referenceTable = "| setting | type | default | meaning |\n| --- | --- | --- | --- |\n"

const referenceHead = `# Configuration

Each setting can stand in ` + "`/etc/heteroflow/agent.yaml`" + ` (or the file given with ` + "`--config`" + `), in the
environment, and on the command line; the command line wins over the environment, the environment over the
file, the file over the default. For ` + "`tasks.poll_period`" + `:

` + "```" + `
file          tasks:
                poll_period: 5s
environment   HETEROFLOW_TASKS_POLL_PERIOD=5s
command line  --set tasks.poll_period=5s
` + "```" + `

Durations need a unit (` + "`500ms`, `5s`, `2m`" + `); lists are comma-separated outside the file. An unknown key is
an error, and so is an unknown variable that starts with ` + "`HETEROFLOW_`" + `.

The **system key** is not a setting. It is read from the file ` + "`server.key_file`" + ` names, which nobody else may
be able to read, or from the systemd credential ` + "`heteroflow-key`" + `; never from the command line or the
environment. A key that the server refuses (401) is read again, so a corrected file heals the agent without a restart.

` + "`heteroflow-agent config check`" + ` reports every problem at once and exits with 2 if there is one;
` + "`heteroflow-agent config print`" + ` shows what is in effect.
`
