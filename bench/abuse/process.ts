/** The abuser's process: attacks from when it is told to until its parent lets go of it. */

import { beginAttack, keepAttacking } from './attacks.ts'
import type { FromAbuser, ToAbuser } from './messages.ts'

const counts = { opened: 0, closedByServer: 0, acts: 0, sentBytes: 0, answers: {} }

process.on('disconnect', () => process.exit(0))
process.on('message', (message: ToAbuser) => {
  if (message.type === 'report') {
    const { user, system } = process.cpuUsage()
    send({ type: 'report', report: { ...counts, cpuMicros: user + system } })
    return
  }
  beginAttack(message.job, counts).then(
    (act) => keepAttacking(act, message.job, () => send({ type: 'ready' })),
    (error: unknown) => send({ type: 'failed', reason: error instanceof Error ? error.message : String(error) }),
  )
})

function send(message: FromAbuser): void {
  process.send?.(message)
}
