/** The host that a URL names, and whether it is an address. */

import { isIP } from 'node:net'

export const isIpAddress = (text: string): boolean => isIP(text) !== 0
/** Of the external URL, without the brackets of IPv6. */
export const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '')

/** Browsers offer passkeys to secure contexts alone, and bind none to an address (WebAuthn §5.1.3, §5.1.4). */
export function canHavePasskeys(url: string): boolean {
  const host = hostOf(url)
  return !isIpAddress(host) && (new URL(url).protocol === 'https:' || host === 'localhost')
}
