/** A user as the Admin API shows it, and the forms of its name and mail address. */

import * as z from 'zod/v4'
import { isUsername, ROLES, USERNAME_RULE } from '../../domain/administrator.ts'
import { isMailAddress, MAIL_ADDRESS } from '../../shared/lib/bounded.ts'
import type { UserRow } from '../../store/user-store.ts'
import { text, time, timeOrNull, timestamp } from '../schemas.ts'

export const User = z
  .strictObject({
    id: z.uuid(),
    username: z.string(),
    email: z.string(),
    role: z.enum(ROLES),
    scope: z.array(z.string()).meta({ description: 'Tags of accounts and credentials that a registrar looks after.' }),
    enabled: z.boolean(),
    created_at: timestamp(),
    updated_at: timestamp(),
    last_login_at: timestamp().nullable(),
  })
  .meta({ id: 'User' })

export function userBody(user: UserRow): z.input<typeof User> {
  const { id, username, email, role, scope, enabled, created_at, updated_at, last_login_at } = user
  return {
    id,
    username,
    email,
    role,
    scope: [...scope],
    enabled,
    created_at: time(created_at),
    updated_at: time(updated_at),
    last_login_at: timeOrNull(last_login_at),
  }
}

const trimmed = (rule: string) => text(1_000, rule).transform((text) => text.trim())
export const USERNAME = trimmed(USERNAME_RULE).refine(isUsername, { error: USERNAME_RULE })
const MAIL_RULE = `must be ${MAIL_ADDRESS}`
export const MAIL = trimmed(MAIL_RULE).refine(isMailAddress, { error: MAIL_RULE })
