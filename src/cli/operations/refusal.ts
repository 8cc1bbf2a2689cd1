/** What an operation of the Admin API has refused, as the command line tells it. */

import type { FieldError } from '../../domain/admin-error.ts'
import { CommandError } from '../values.ts'

export class Refusal extends CommandError {
  /** Of HTTP. */
  readonly status: number
  readonly fields: readonly FieldError[]

  constructor(
    message: string,
    { status, fields = [] }: { status: number; fields?: readonly FieldError[] | undefined },
  ) {
    super(message)
    this.status = status
    this.fields = fields
  }
}
