/** Renders each kind of `EVENTS` for docs/hooks.md and docs/operations/events.md. Pure. */

import { AUDIT_KINDS, EVENT_KINDS, EVENTS, type EventKind, HOOK_KINDS, membersOf, severityOf } from '../domain/event.ts'
import { sampleEvent } from '../domain/event-samples.ts'
import { renderAuditRecord } from './syslog-sender.ts'

/** Generated parts by file, below `docs`, and by the name in the comment before each. */
export const GENERATED: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'hooks.md': {
    'told by default': () => renderTable(HOOK_KINDS),
    'told on request': () => renderTable(EVENT_KINDS.filter((kind) => !HOOK_KINDS.includes(kind))),
  },
  'operations/events.md': { 'audit records': renderAudit },
}

/** @returns the text of a file with its generated parts as they are now */
export function renewed(file: string, text: string): string {
  const parts = Object.entries(GENERATED[file] ?? {})
  return parts.reduce((former, [name, render]) => withPart(former, name, render()), text)
}

/** @returns the text with another generated part between its comments */
export function withPart(text: string, name: string, part: string): string {
  const begin = `<!-- ${name}: written by npm run docs -->\n`
  const [before, rest] = [text.slice(0, text.indexOf(begin)), text.slice(text.indexOf(begin) + begin.length)]
  return `${before}${begin}${part}\n${rest.slice(rest.indexOf('<!-- end -->'))}`
}

function renderTable(kinds: readonly EventKind[]): string {
  const rows = kinds.map((kind) => `| \`${kind}\` | ${EVENTS[kind].says} | ${membersOf(kind).map(shown).join(', ')} |`)
  return [
    '| Event | What happened | Context beside `event`, `event_id`, `occurred_at` |',
    '|---|---|---|',
    ...rows,
  ].join('\n')
}

const shown = ({ name, note }: { name: string; note: string | undefined }) =>
  `\`${name}\`${note === undefined ? '' : ` (${note})`}`

function renderAudit(): string {
  const named = (kinds: readonly EventKind[]) => kinds.map((kind) => `\`${kind}\``).join(', ')
  const others = EVENT_KINDS.filter((kind) => !AUDIT_KINDS.includes(kind))
  const severities = [...new Set(AUDIT_KINDS.map(severityOf))].toSorted()
  const bySeverity = severities.map((severity) => {
    const kinds = AUDIT_KINDS.filter((kind) => severityOf(kind) === severity)
    return `${severity} for ${kinds.length > 10 ? 'all others' : named(kinds)}`
  })
  return `A record of every kind of [event](../hooks.md#modules) but ${named(others)}, such as:

\`\`\`json
${renderAuditRecord(sampleEvent('certificate.revocation'))}
\`\`\`

Its severity in syslog is ${bySeverity.join('; ')}.`
}
