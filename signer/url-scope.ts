/** Whether a URL is at or below another one: the same origin, and the same first segments of the path. Pure. */

/** RFC 3986 §2 without `@`. Readers differ on `\`, on spaces, and on what is before an `@`. */
const PLAIN_URL = /^https?:\/\/[\w.:[\]-]+(?:[/?][\w.~:/?!$&'()*+,;=%-]*)?$/i

/** @param allowed an http or https URL */
export function isUrlBelow(url: string, allowed: string): boolean {
  if (!PLAIN_URL.test(url) || !URL.canParse(url)) return false
  const [inner, outer] = [new URL(url), new URL(allowed)]
  const segments = outer.pathname.replace(/\/$/, '')
  return inner.origin === outer.origin && `${inner.pathname}/`.startsWith(`${segments}/`)
}
