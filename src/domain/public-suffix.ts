/** Names below which anybody can register names, by the Public Suffix List (publicsuffix.org). */

import { createRequire } from 'node:module'

export const PUBLIC_SUFFIX_LISTS = ['none', 'builtin'] as const
export type PublicSuffixList = (typeof PUBLIC_SUFFIX_LISTS)[number]

/** Whether the names right below `name`, in normal form, belong to their registrants. */
export type IsRegistry = (name: string) => boolean

/**
 * Reads the list of the `tldts` package on demand, 1.5 MB a thread. Omits private domains, as
 * CA/Browser Forum BR §3.2.2.6 advises: the operator of `github.io` may have its wildcard.
 */
export function publicSuffixes(list: PublicSuffixList): IsRegistry | undefined {
  if (list === 'none') return undefined
  const { getPublicSuffix } = createRequire(import.meta.url)('tldts') as typeof import('tldts')
  const options = { extractHostname: false, validateHostname: false, detectIp: false }
  return (name) => {
    // A rule such as `*.kawasaki.jp` covers only names below it, hence the extra label. No rule
    // begins with `_`.
    const suffix = getPublicSuffix(`_.${name}`, options)
    return suffix === null || suffix.length >= name.length
  }
}
