/** Renders the manual's table of settings and the editors' JSON Schema from the schema. Pure. */

import { typeOf as jsonTypeOf, type SchemaNode, withoutNull } from '../shared/config-file/schema-node.ts'
import { ABSENT_KEY, REFERENCE } from './schema.ts'

/** Marks a key that a reload applies. */
const LIVE = '↻'

interface Row {
  key: string
  node: SchemaNode
  isRequired: boolean
  default: unknown
}

/** One row for a key that several groups share, such as the time-out of every challenge method. */
interface SharedRow extends Row {
  /** The groups with the key, by their default. */
  groups: Map<string, string[]>
}

const INTRODUCTION = `# Configuration

This file is generated from the schema in \`src/config\` by \`npm run docs\`; do not edit it.

One file, YAML (\`.yaml\`, \`.yml\`) or JSON (\`.json\`), named by \`-c\` or by the environment variable \`SERVICE_CONFIG\`.
\`chancery -c FILE --validate-only\` checks it and prints every error with its line. For completion in an editor, point it
at [configuration.schema.json](configuration.schema.json).

- Required are \`server.external_url\`, \`database.database\`, \`database.user\`, and the two paths of \`ca.internal\`, a token in
  \`ca.hsm\` (with \`ca.backend: hsm\`) or \`ca.signer.socket\`. Everything else has a default.
- A key with ${LIVE} takes effect on SIGHUP; every other key takes effect after a restart.
- In a key, \`<name>\` means a name of your choice, \`[]\` an entry of a list, \`*\` each section that *Default* names.
- An unknown key is an error, and so is one written twice. \`_comment\` (a text or a list of texts) may stand at the top,
  under \`ca\` and in each entry of \`hooks.registered\`.
- \`\${VAR}\` and \`\${VAR:-default}\` are replaced by environment variables where they are the whole value: by a
  number or a switch where the key wants one, else by a text without the line end at its end. An unset variable without a
  default is an error, an empty one counts as set. Inside a longer value a reference is an error, except in a secret.
- An optional text that is empty counts as left out. A path starts with a slash and does not end with one.
- The values are YAML 1.2: switches are \`true\` and \`false\`; \`yes\` and \`on\` are texts.
`

export function renderManual(): string {
  const sections = Object.entries(REFERENCE.properties ?? {}).filter(([name]) => name !== '_comment')
  return [INTRODUCTION, ...sections.flatMap(([name, node]) => renderSection(name, node)), renderAbsent()].join('\n')
}

function renderSection(name: string, node: SchemaNode): string[] {
  const rows = childRows(name, node)
  if (rows.length === 0) return []
  const table = ['| Key | Type | Default | Meaning |', '|---|---|---|---|', ...rows.map(renderRow)]
  return [`## ${name}\n\n${node.description ?? ''}\n\n${table.join('\n')}\n`]
}

function rowsOf(key: string, raw: SchemaNode, isRequired: boolean): Row[] {
  if (key === ABSENT_KEY) return []
  const node = withoutNull(raw)
  const entry = node.items === undefined ? undefined : withoutNull(node.items)
  const named = node.additionalProperties || undefined
  return [
    { key, node, isRequired, default: node.default ?? raw.default },
    ...childRows(key, node),
    ...(entry?.properties === undefined ? [] : childRows(`${key}[]`, entry)),
    ...(named?.properties === undefined ? [] : childRows(`${key}.<name>`, named)),
  ]
}

function childRows(key: string, node: SchemaNode): Row[] {
  const children = Object.entries(node.properties ?? {}).filter(([name]) => name !== '_comment')
  const rows = children.flatMap(([name, child]) =>
    rowsOf(`${key}.${name}`, child, node.required?.includes(name) ?? false),
  )
  return unifyRows(key, rows)
}

/** Equal keys `key.group.x` of several groups become `key.*.x`, placed before the first group. */
function unifyRows(key: string, rows: readonly Row[]): Row[] {
  const alike = groupBy(rows, (row) => {
    const [, , name, ...deeper] = row.key.slice(key.length).split('.')
    const isShared = name !== undefined && deeper.length === 0 && !/[[<*]/.test(row.key)
    return isShared ? [name, typeOf(row.node), row.node.description].join('\n') : row.key
  })
  const shared = [...alike.values()].filter(({ length }) => length > 1)
  const gone = new Set(shared.flat())
  const rest = rows.filter((row) => !gone.has(row))
  const first = shared[0]?.[0]?.key.slice(0, shared[0][0].key.lastIndexOf('.'))
  const place = rest.findIndex((row) => row.key === first)
  return place < 0 ? [...rest] : rest.toSpliced(place, 0, ...shared.map((same) => sharedRow(key, same)))
}

function sharedRow(key: string, rows: readonly Row[]): SharedRow {
  const [row] = rows as [Row, ...Row[]]
  const groupOf = (same: Row) => same.key.slice(key.length + 1, same.key.lastIndexOf('.'))
  const name = row.key.slice(row.key.lastIndexOf('.') + 1)
  const groups = groupBy(rows, (same) => renderDefault(same.default))
  return {
    ...row,
    key: `${key}.*.${name}`,
    groups: new Map([...groups].map(([value, same]) => [value, same.map(groupOf)])),
  }
}

function renderRow(row: Row | SharedRow): string {
  const { node } = row
  const name = `\`${row.key}\`${node.reload === 'live' ? ` ${LIVE}` : ''}`
  const isGroup = node.properties !== undefined
  const type = isGroup ? 'section' : typeOf(node)
  return `| ${name} | ${cell(type)} | ${isGroup ? '' : shownDefault(row)} | ${cell(node.description ?? '')} |`
}

function shownDefault(row: Row | SharedRow): string {
  if ('groups' in row) return [...row.groups].map(([value, names]) => `${names.join(', ')}: ${value}`).join('; ')
  return row.isRequired ? 'required' : (row.node.defaultText ?? renderDefault(row.default))
}

/** The type of a key in a few words: `integer ≥ 1 (seconds)`, `list of domain name`. */
function typeOf(node: SchemaNode): string {
  const unit = node.unit === undefined ? '' : ` (${node.unit})`
  return `${plainType(withoutNull(node))}${unit}`
}

function plainType(node: SchemaNode): string {
  if (node.expects !== undefined) return node.expects.replace(/^(?:an?|one of) /, '').replace(/,? such as .*$/, '')
  if (node.enum !== undefined) return node.enum.join(', ')
  switch (node.type) {
    case 'string':
      return 'text'
    case 'array':
      return `list${range(node.minItems, node.maxItems)} of ${node.items === undefined ? 'values' : plainType(withoutNull(node.items))}`
    case 'integer':
    case 'number':
      return `${node.type}${range(node.exclusiveMinimum ?? node.minimum, node.maximum)}`
    default:
      return node.type === 'boolean' ? 'boolean' : 'section'
  }
}

/** The largest safe integers in the schema mean that there is no bound. */
function range(minimum = -Infinity, maximum = Infinity): string {
  const isLow = minimum > Number.MIN_SAFE_INTEGER
  if (maximum < Number.MAX_SAFE_INTEGER) return isLow ? ` ${minimum}–${maximum}` : ` ≤ ${maximum}`
  return isLow ? ` ≥ ${minimum}` : ''
}

function renderDefault(value: unknown): string {
  if (value === undefined || value === null || value === '') return '–'
  if (Array.isArray(value)) return value.length === 0 ? '–' : value.map((entry) => `\`${entry}\``).join(', ')
  if (typeof value === 'object') return Object.keys(value).length === 0 ? '–' : `\`${JSON.stringify(value)}\``
  return `\`${value}\``
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

const cell = (text: string) => text.replaceAll('|', '\\|')

function renderAbsent(): string {
  return `## Not in this version

These keys are accepted, so that the configuration of a later version can be read. To ask for one of their features is an error; the JSON
Schema describes them: \`${ABSENT_KEY}\`.
`
}

/** JSON Schema (draft 2020-12) of the file before substitution of `${VAR}`. */
export function renderEditorSchema(): string {
  const schema = { ...forEditors(REFERENCE), title: 'Chancery configuration' }
  return `${JSON.stringify(schema, null, 2)}\n`
}

function forEditors(node: SchemaNode): SchemaNode {
  const { unit, reload, secret: _, expects, defaultText, default: preset, enum: values, ...rest } = node
  const notes = [
    node.description,
    expects && `Must be ${expects}.`,
    unit && `In ${unit}.`,
    defaultText && `Default: ${defaultText}.`,
    reload === 'live' && 'Applied on SIGHUP.',
  ]
  const description = notes.filter(Boolean).join(' ')
  const isEmptySection = node.properties !== undefined && Object.keys((preset as object) ?? {}).length === 0
  const showsDefault = preset !== undefined && defaultText === undefined && !isEmptySection
  const mapped: SchemaNode = {
    ...rest,
    ...(description !== '' && { description }),
    ...(showsDefault && { default: preset }),
    ...(values !== undefined && orVariable({ enum: values })),
    ...(node.properties && { properties: mapValues(node.properties, forEditors) }),
    ...(node.additionalProperties && { additionalProperties: forEditors(node.additionalProperties) }),
    ...(node.items && { items: forEditors(node.items) }),
    ...(node.anyOf && { anyOf: node.anyOf.map(forEditors) }),
  }
  if (mapped.maximum === Number.MAX_SAFE_INTEGER) delete mapped.maximum
  if (mapped.minimum === Number.MIN_SAFE_INTEGER) delete mapped.minimum
  if (!['integer', 'number', 'boolean'].includes(jsonTypeOf(mapped))) return mapped
  const { description: said, default: shown, ...value } = mapped
  return { ...(said && { description: said }), ...(showsDefault && { default: shown }), ...orVariable(value) }
}

/** Anything but a free text may also be a variable, whose value the editor does not know. */
const orVariable = (node: SchemaNode): SchemaNode => ({ anyOf: [node, { type: 'string', pattern: '^\\$\\{.+\\}$' }] })

const mapValues = (record: Record<string, SchemaNode>, map: (node: SchemaNode) => SchemaNode) =>
  Object.fromEntries(Object.entries(record).map(([key, node]) => [key, map(node)]))
