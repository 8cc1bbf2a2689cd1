/** What is known of one thing, as text for a reader: a line for each member, indented below what it belongs to. */

/** Plain members in the order of printing. */
export type Report = { [name: string]: Value }
type Value = string | number | boolean | null | undefined | Report | readonly Value[]

/** A line break in a text of strangers would look like a member of ours. */
const oneLine = (value: unknown): string => String(value).replaceAll(/[\n\t]/g, ' ')

/**
 * `name  value` lines; members of lists and objects are indented below their name. Absent members
 * are left out.
 */
export function renderText(report: Report, indent = ''): string {
  const members = Object.entries(report).filter(([, value]) => value !== null && value !== undefined)
  const width = Math.max(...members.map(([name]) => name.length))
  return members.map(([name, value]) => `${indent}${renderMember(name, value, width, indent)}`).join('\n')
}

function renderMember(name: string, value: Value, width: number, indent: string): string {
  const label = name.replaceAll('_', ' ')
  if (Array.isArray(value)) {
    const items = value.map((item) =>
      isStep(item)
        ? `${indent}  - ${renderStep(item)}`
        : isReport(item)
          ? `${indent}  - ${renderText(item, `${indent}    `).trimStart()}`
          : `${indent}  - ${oneLine(item)}`,
    )
    return [`${label}${items.length === 0 ? ' none'.padStart(width - label.length + 6) : ''}`, ...items].join('\n')
  }
  if (isReport(value))
    return Object.keys(value).length === 0
      ? `${label.padEnd(width)}  none`
      : `${label}\n${renderText(value, `${indent}  `)}`
  return `${label.padEnd(width)}  ${oneLine(value)}`
}

/** A step of a validation attempt on one line, because an attempt has a dozen steps. */
function renderStep({ step, ...facts }: Report): string {
  const text = (value: Value) =>
    isReport(value) ? JSON.stringify(value) : Array.isArray(value) ? value.map(String).join(', ') || 'none' : value
  const told = Object.entries(facts).map(([name, value]) => `${name} ${text(value)}`)
  return oneLine([step, ...told].join('; '))
}

function isStep(value: Value): value is Report {
  return isReport(value) && 'step' in value
}

function isReport(value: Value): value is Report {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
