/** The evidence of a validation, step by step: what was asked, of whom, and what was found. */

import { Badge, Facts, Time } from '../components/basics.tsx'

type JsonObject = Readonly<Record<string, unknown>>

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)

/** Everything in it may come from a stranger; it is drawn as text. */
export function Evidence({ record }: { record: JsonObject }) {
  const { type, attempt, at, ms, result, detail, caa, steps } = record
  return (
    <details open={result !== 'success'}>
      <summary>Evidence of the attempt that decided</summary>
      <Facts
        rows={[
          [
            'Verdict',
            <Badge key="verdict" tone={result === 'success' ? 'good' : 'bad'}>
              {textOf(result)}
            </Badge>,
          ],
          ['Detail', textOf(detail)],
          ['Challenge', textOf(type)],
          ['Attempt', textOf(attempt)],
          ['Time', typeof at === 'string' ? <Time key="at" at={at} /> : ''],
          ['Duration', ms === undefined ? '' : `${textOf(ms)} ms`],
          ['CAA', textOf(caa)],
        ]}
      />
      <ol class="steps">
        {(Array.isArray(steps) ? (steps as JsonObject[]) : []).map((step, index) => (
          <li key={index}>
            <Step step={step} />
          </li>
        ))}
      </ol>
    </details>
  )
}

function Step({ step: { step, ...facts } }: { step: JsonObject }) {
  return (
    <>
      <strong>{textOf(step)}</strong>
      <Facts rows={Object.entries(facts).map(([name, value]) => [name, textOf(value)] as const)} />
    </>
  )
}
