/** Errors between several keys: a table of pure functions over the finished values. */

import { ACME } from './rules/acme.ts'
import { ACME_PROXY } from './rules/acme-proxy.ts'
import { CA } from './rules/ca.ts'
import { CHALLENGES } from './rules/challenges.ts'
import { HOOKS } from './rules/hooks.ts'
import { CRL, OPERATIONS } from './rules/operations.ts'
import type { Rule } from './rules/rule.ts'
import { SERVER } from './rules/server.ts'

/** What is wrong is told in this order, where the file gives none. */
export const RULES: readonly Rule[] = [
  ...[...SERVER, ...ACME, ...CHALLENGES, ...CA, ...ACME_PROXY],
  ...[...CRL, ...OPERATIONS, ...HOOKS],
]
