/** Hosts that are reached without a network. */

import { isIPv4 } from 'node:net'

/** A folder with a Unix socket. */
export const isSocketFolder = (host: string) => host.startsWith('/')

export const isLocalHost = (host: string) =>
  isSocketFolder(host) || host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
