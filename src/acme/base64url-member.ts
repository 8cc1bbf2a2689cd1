/** Payload members that are base64url (RFC 8555 §6.1): no padding, one spelling. */

import { z } from 'zod/v4'
import { decodeBase64url } from '../shared/lib/encoding.ts'

export const Base64url = z.string().transform((text, check) => {
  const bytes = decodeBase64url(text)
  if (!bytes) check.addIssue({ code: 'custom', message: 'not base64url without padding' })
  return bytes ?? z.NEVER
})
