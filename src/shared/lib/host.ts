/** Hosts: the one that a URL names, whether it is an address, and whether it is reached without a network. */

import { isIP, isIPv4 } from 'node:net'

export const isIpAddress = (text: string): boolean => isIP(text) !== 0
/** The host of a URL, without the brackets of IPv6. */
export const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '')

/** Browsers offer passkeys to secure contexts alone, and bind none to an address (WebAuthn §5.1.3, §5.1.4). */
export function canHavePasskeys(url: string): boolean {
  const host = hostOf(url)
  return !isIpAddress(host) && (new URL(url).protocol === 'https:' || host === 'localhost')
}

/** A folder with a Unix socket. */
export const isSocketFolder = (host: string) => host.startsWith('/')

export const isLocalHost = (host: string) =>
  isSocketFolder(host) || host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
