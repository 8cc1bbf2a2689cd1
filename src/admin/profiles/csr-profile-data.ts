/** `profile_data` of a CSR profile. The domain says what the fields mean (`domain/csr-profile.ts`). */

import * as z from 'zod/v4'
import { type CsrProfile, CsrProfileError, parseCsrProfile } from '../../domain/csr-profile.ts'
import { compileLinearPattern, MAX_PATTERN_LENGTH, PatternError } from '../../domain/linear-pattern.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { CURVES, SIGNATURE_ALGORITHMS } from '../../shared/pki/algorithms.ts'
import { EXTENDED_KEY_USAGES, KEY_USAGES } from '../../shared/pki/oids.ts'
import { notRight } from '../admin-errors.ts'
import { text } from '../schemas.ts'

/** A profile may name an algorithm that no request here has. */
const KEY_TYPES = ['RSA', ...Object.values(CURVES).map(({ profileLabel }) => profileLabel), 'Ed25519', 'Ed448'] as const
const ALGORITHMS = [...Object.keys(SIGNATURE_ALGORITHMS), 'Ed448']
const PURPOSES = Object.values(EXTENDED_KEY_USAGES).map(({ rfcName }): string => rfcName)
const SAN_TYPES = ['DNS_NAME', 'IP_ADDRESS', 'RFC822_NAME', 'URI'] as const

const MOST = 1_000_000
const MOST_ENTRIES = 1_000
const whole = (least: number) => z.int().min(least).max(MOST).optional()
const bound = () => whole(-1).meta({ description: '-1 is no limit.' })
const someOf = (values: readonly string[]) => boundedArray(z.enum(values), MOST_ENTRIES).optional()

const purpose = () =>
  text(255).refine((text) => PURPOSES.includes(text) || /^\d+(?:\.\d+)+$/.test(text), {
    error: `must be one of ${PURPOSES.join(', ')}, or an OID`,
  })

/** RE2 syntax. */
const pattern = () =>
  text(MAX_PATTERN_LENGTH)
    .superRefine((source, context) => {
      try {
        compileLinearPattern(source)
      } catch (error) {
        if (!(error instanceof PatternError)) throw error
        context.addIssue({ code: 'custom', message: error.message })
      }
    })
    .optional()
    .meta({ format: 'regex' })

/** A field that is absent checks nothing. */
export const ProfileData = z
  .strictObject({
    authorized_keys: z
      .partialRecord(z.enum(KEY_TYPES), z.int().min(0).max(MOST))
      .optional()
      .meta({ description: 'Key type and its minimum size in bits; 0 is no minimum.' }),
    authorized_signature_algorithms: someOf(ALGORITHMS),
    authorized_key_usages: someOf(KEY_USAGES),
    authorized_extended_key_usages: boundedArray(purpose(), MOST_ENTRIES).optional(),
    common_name_minimum: bound(),
    common_name_maximum: bound(),
    common_name_regex: pattern(),
    san_minimum: bound(),
    san_maximum: bound(),
    san_regex: pattern(),
    san_types: someOf(SAN_TYPES),
    subject_regex: pattern(),
    wildcard_in_common_name: z.boolean().optional(),
    wildcard_in_san: z.boolean().optional(),
    max_subdomain_depth: whole(0),
    depth_base_domains: boundedArray(text(255).trim().min(1), MOST_ENTRIES).optional(),
    reuse_key: z.boolean().optional().meta({ description: 'False refuses a key that was certified before.' }),
    renewal_window_days: whole(-1),
  })
  .meta({ id: 'CsrProfileData' })

/** @throws AdminError that names each wrong field */
export function profileOf(data: object): CsrProfile {
  try {
    return parseCsrProfile(data)
  } catch (error) {
    if (!(error instanceof CsrProfileError)) throw error
    const fields = error.faults.map((fault) => {
      const [, name = '', message = ''] = /^(\S+) (.*)$/s.exec(fault) ?? []
      return { field: name === 'profile_data' ? name : `profile_data.${name}`, message }
    })
    throw notRight('profile', fields)
  }
}
