/** A service that is administered from here. */

import { isGiven, option, optional, UsageError, type Values } from '../../shared/command-line.ts'
import { OperationCaller } from '../operations/caller.ts'
import { CommandError, text } from '../values.ts'
import { tokenFor } from './session-file.ts'

function httpUrl(value: string): string {
  const { protocol, href } = new URL(value)
  if (!/^https?:$/.test(protocol)) throw new Error('takes a URL such as https://ca.example')
  return href.replace(/\/$/, '')
}

export const REMOTE_OPTIONS = {
  server: optional('URL of the service, with the path of server.external_url', httpUrl),
  'base-path': option('Its admin_api.base_path', text, '/api'),
  json: isGiven('Print JSON'),
  debug: isGiven('Print stack traces of errors'),
}

const ADVICE = 'log in with: chancery --server URL login'

export type RemoteOptions = Values<typeof REMOTE_OPTIONS>

export class Connection extends OperationCaller {
  /** @throws UsageError when they say no service */
  constructor({ server, 'base-path': basePath }: RemoteOptions) {
    if (server === undefined) throw new UsageError('--server takes a URL')
    const baseUrl = `${server}${basePath.replace(/\/$/, '')}`
    super({
      baseUrl,
      fetch,
      token: () => tokenFor(baseUrl),
      advice: ADVICE,
      explain({ cause, message }) {
        const { message: why, code } = (cause ?? {}) as { message?: string; code?: string }
        return new CommandError(`${baseUrl} cannot be reached: ${why || code || message}`)
      },
    })
  }
}
