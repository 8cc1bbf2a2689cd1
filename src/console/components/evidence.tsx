/**
 * The record of the attempt that decided an authorization, step by step. Targets choose much of its
 * content, so every value is shown as plain text.
 */

import type { Output } from '../api.ts'
import { WORDS } from '../words.ts'
import { Badge, Time } from './basics.tsx'
import { Table } from './table.tsx'

export type Authorization = Output<'getOrder'>['authorizations'][number]

interface Step {
  step: string
  facts: string
  index: number
}

const words = WORDS.certificate
const STEP_COLUMNS = [
  { head: words.step, kind: 'fixed', cell: ({ step }: Step) => step },
  { head: words.found, kind: 'wide', cell: ({ facts }: Step) => <code>{facts}</code> },
] as const

export function Evidence({ authorization }: { authorization: Authorization }) {
  const { identifier, status, evidence, challenges } = authorization
  const name = `${authorization.wildcard ? '*.' : ''}${identifier.value}`
  const refused = challenges.find(({ error }) => error !== null)
  return (
    <div class="section">
      <h3>
        {words.authorization(name)} <Badge tone={status === 'valid' ? 'good' : 'plain'}>{status}</Badge>
      </h3>
      {refused?.error && <p class="problem">{textOf(refused.error['detail'] ?? refused.error)}</p>}
      {evidence ? <Attempt name={name} evidence={evidence} /> : <p class="quiet">{words.evidenceNone}</p>}
    </div>
  )
}

function Attempt({ name, evidence }: { name: string; evidence: Record<string, unknown> }) {
  const { type, attempt, result, at, ms, detail, steps } = evidence
  const shown = (Array.isArray(steps) ? steps : []).map(stepOf)
  return (
    <>
      <p>
        {textOf(type)}, {words.attempt(Number(attempt))}: {textOf(result)}
        {typeof ms === 'number' && <span class="quiet"> {words.took(ms)}</span>}{' '}
        {typeof at === 'string' && !Number.isNaN(Date.parse(at)) && <Time at={at} />}
      </p>
      {detail !== undefined && <p>{textOf(detail)}</p>}
      <Table caption={words.authorization(name)} columns={STEP_COLUMNS} rows={shown} rowKey={({ index }) => index} />
    </>
  )
}

function stepOf(step: unknown, index: number): Step {
  const { step: name, ...facts } = (typeof step === 'object' && step !== null ? step : { step }) as Record<
    string,
    unknown
  >
  const told = Object.entries(facts).map(([fact, value]) => `${fact}: ${textOf(value)}`)
  return { step: textOf(name), facts: told.join('  '), index }
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return Array.isArray(value) ? value.map(textOf).join(', ') : JSON.stringify(value)
}
