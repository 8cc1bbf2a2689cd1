/** Runs programs of this host, each as the user whose files it touches. */

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { PLACES } from './facts.ts'
import type { Command } from './step.ts'

/** A migration of an empty database takes seconds, an RSA key in a slow token a minute. */
const TIMEOUT_MS = 600_000
/** Of what a program has said, when it fails. */
const LAST_LINES = 15

export interface Outcome {
  code: number | null
  stdout: string
  /** Standard output and standard error as they came. */
  output: string
}

/** Runs a program as this user, with the variables of the service where it is the service's. */
export function run({ words, as, env = {} }: Command): Promise<Outcome> {
  const [file = '', ...args] = as === 'root' ? words : ['runuser', '-u', as, '--', ...words]
  const { PATH = '/usr/sbin:/usr/bin:/sbin:/bin' } = process.env
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      cwd: '/',
      env: {
        PATH: `${PATH}:/usr/sbin:/sbin`,
        LC_ALL: 'C.UTF-8',
        ...(as === 'chancery' && variables(PLACES.serviceEnv)),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
    })
    let [stdout, output] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    child.once('error', (error) => resolve({ code: null, stdout, output: error.message }))
    child.once('close', (code) => resolve({ code, stdout, output }))
  })
}

/** @throws Error with the last lines of what it said, unless it ended with 0 */
export async function mustRun(command: Command): Promise<string> {
  const { code, stdout, output } = await run(command)
  if (code === 0) return stdout
  const [name, ...args] = command.words
  const shown = path.basename(name ?? '') === 'node' ? args.map((word) => path.basename(word)) : command.words
  throw new Error(`${shown.slice(0, 6).join(' ')} ended with ${code ?? 'an error'}:\n${lastLines(output)}`)
}

export const lastLines = (text: string, most = LAST_LINES) => text.trimEnd().split('\n').slice(-most).join('\n')

/** As `EnvironmentFile=` of systemd reads it, for what setup has written there. */
function variables(file: string): Record<string, string> {
  if (!existsSync(file)) return {}
  const lines = [...readFileSync(file, 'utf8').matchAll(/^([A-Z_]+)=(["']?)(.*)\2$/gm)]
  const unquoted = (quote: string, value: string) => (quote === "'" ? value : value.replaceAll(/\\(.)/g, '$1'))
  return Object.fromEntries(lines.map(([, name = '', quote = '', value = '']) => [name, unquoted(quote, value)]))
}

export const hasProgram = (name: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${name}`], { stdio: 'ignore' }).status === 0
