/** What an operation of the Admin API has refused, as the command line tells it. */

import type { FieldError } from '../../domain/admin-error.ts'
import { CommandError } from '../values.ts'

export class Refusal extends CommandError {
  /** Of HTTP. */
  readonly status: number
  readonly fields: readonly FieldError[]
  /** The service's bad request is wrong usage on the command line. */
  readonly exitCode: 1 | 2

  constructor(
    message: string,
    { status, fields = [] }: { status: number; fields?: readonly FieldError[] | undefined },
  ) {
    super(message)
    this.status = status
    this.exitCode = status === 400 ? 2 : 1
    this.fields = fields
  }
}
