/** The plan as an operator reads it: each step with what is left of it, and the files on request. */

import { spawnSync } from 'node:child_process'
import { plural } from '../shared/lib/plural.ts'
import type { Facts } from './facts.ts'
import { isDone } from './host.ts'
import type { FileWork, Plan, Step } from './step.ts'
import { wrapped } from './terminal.ts'

export type State = 'done already' | 'to do' | 'differs'

export interface PlannedStep extends Step {
  state: State
}

/** @param files texts of the files that are there */
export async function inspectPlan({ steps }: Plan, files: Facts['files']): Promise<PlannedStep[]> {
  const planned: PlannedStep[] = []
  for (const step of steps) {
    const { work } = step
    const isOther = work.kind === 'file' && (files[work.path] ?? work.text) !== work.text
    planned.push({ ...step, state: (await isDone(work)) ? 'done already' : isOther ? 'differs' : 'to do' })
  }
  return planned
}

/** What is done already is counted only, so that what is left stands out. */
export function planLines(steps: readonly PlannedStep[]): string[] {
  const left = steps.filter(({ state }) => state !== 'done already')
  const lines = left.map(({ title, state, work }, at) => {
    const file = work.kind === 'file' ? ` (${work.path})` : ''
    const mark = state === 'differs' ? ' – a file that differs is there' : ''
    return wrapped(`${title}${file}${mark}`, '      ').replace(/^ {6}/, `${String(at + 1).padStart(4)}  `)
  })
  const done = steps.length - left.length
  return [...lines, ...(done > 0 ? [`\n      ${plural(done, 'step')} more: done already`] : [])]
}

/** Texts of the files, without what is secret in them. */
export const fileLines = (steps: readonly PlannedStep[]): string[] =>
  steps.flatMap(({ work, state }) =>
    work.kind === 'file' && state !== 'done already'
      ? [`── ${work.path}`, work.isSecret ? '(a secret)' : withoutSecrets(work.text), '']
      : [],
  )

/** What would change in a file that is there. */
export function differenceOf({ path, text, isSecret }: FileWork): string {
  if (isSecret) return '(a secret)'
  const words = ['-u', '--label', `${path} (is there)`, '--label', `${path} (setup)`, path, '-']
  const { stdout } = spawnSync('diff', words, { input: text, encoding: 'utf8' })
  return withoutSecrets(stdout)
}

const withoutSecrets = (text: string) => text.replaceAll(/(secret|password): ".*"/g, '$1: "…"')
