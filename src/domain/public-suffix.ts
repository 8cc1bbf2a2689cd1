/** Names below which strangers register names of their own, by the Public Suffix List (publicsuffix.org). */

import { createRequire } from 'node:module'

export const PUBLIC_SUFFIX_LISTS = ['none', 'builtin'] as const
export type PublicSuffixList = (typeof PUBLIC_SUFFIX_LISTS)[number]

/** Whether the names right below `name`, in normal form, belong to whoever registers them. */
export type IsRegistry = (name: string) => boolean

/**
 * Reads the list of the `tldts` package where it is asked for, 1.5 MB a thread. Its section of private domains is left out, as the
 * CA/Browser Forum BR §3.2.2.6 advise: who runs `github.io` may have its wildcard.
 */
export function publicSuffixes(list: PublicSuffixList): IsRegistry | undefined {
  if (list === 'none') return undefined
  const { getPublicSuffix } = createRequire(import.meta.url)('tldts') as typeof import('tldts')
  const options = { extractHostname: false, validateHostname: false, detectIp: false }
  return (name) => {
    // A rule such as `*.kawasaki.jp` says nothing of the name itself, only of what is below it. No rule begins with `_`.
    const suffix = getPublicSuffix(`_.${name}`, options)
    return suffix === null || suffix.length >= name.length
  }
}
