/** The Accept header (RFC 9110 §12.5.1), for resources with one representation. */

/**
 * Whether a media type is acceptable. The most specific range decides, and a weight of 0 refuses;
 * an absent or empty header accepts everything.
 */
export function isAcceptable(mediaType: string, accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === '') return true
  const [type] = mediaType.split('/')
  const weights = new Map(accept.split(',').map(readRange))
  const weight = weights.get(mediaType) ?? weights.get(`${type}/*`) ?? weights.get('*/*') ?? 0
  return weight > 0
}

function readRange(text: string): [range: string, weight: number] {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
  return [range, weight === undefined ? 1 : Number(weight) || 0]
}
