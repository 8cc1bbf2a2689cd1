/** Other ACME servers that the bench starts by name. */

import type { Options } from '../options/options.ts'
import type { BesideOptions } from '../options/servers.ts'
import type { Contestant } from './contestant.ts'

export function startBeside(
  { name }: BesideOptions,
  _folder: string,
  _options: Options,
  _signal: AbortSignal,
): Promise<Contestant> {
  return Promise.reject(new Error(`--beside ${name}: not here`))
}
