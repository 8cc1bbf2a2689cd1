/** Runs inside a validation thread: receives jobs from worker-thread.ts and posts the answers. */

import type { MessagePort } from 'node:worker_threads'
import type { PostedAnswer, PostedJob, ThreadStart } from './worker-thread.ts'

type Tasks = Record<string, (job: object) => unknown>

/** Answers of one turn form one message. A turn longer than this posts its answers early. */
const MAX_TURN_MS = 2

/** The Piscina task. It ends when the pool closes its port. */
export default async function serveJobs({ port, taskFile }: ThreadStart): Promise<void> {
  const tasks = (await import(taskFile)) as Tasks
  const answers = new Answers(port)
  port.on('message', (jobs: PostedJob[]) => {
    for (const job of jobs) begin(tasks, job, answers)
  })
  await new Promise<void>((resolve) => port.on('close', resolve))
}

function begin(tasks: Tasks, { id, task, job }: PostedJob, answers: Answers): void {
  try {
    const answer = tasks[task]?.(job)
    if (!(answer instanceof Promise)) answers.add({ id, answer })
    else
      answer.then(
        (found) => answers.add({ id, answer: found }),
        (error) => answers.add({ id, error }),
      )
  } catch (error) {
    answers.add({ id, error })
  }
}

/** Collects answers into one message. */
class Answers {
  readonly #port: MessagePort
  #ready: PostedAnswer[] = []
  #firstAt = 0

  constructor(port: MessagePort) {
    this.#port = port
  }

  add(answer: PostedAnswer): void {
    const now = performance.now()
    if (this.#ready.push(answer) === 1) {
      this.#firstAt = now
      setImmediate(() => this.#post())
    } else if (now - this.#firstAt > MAX_TURN_MS) this.#post()
  }

  #post(): void {
    const ready = this.#ready
    this.#ready = []
    if (ready.length === 0) return
    try {
      this.#port.postMessage(ready)
    } catch {
      // An answer that cannot be cloned fails only its own job.
      for (const answer of ready) this.#postAlone(answer)
    }
  }

  #postAlone(answer: PostedAnswer): void {
    try {
      this.#port.postMessage([answer])
    } catch (error) {
      const reason = new Error(`the answer cannot be handed over: ${(error as Error).message}`)
      this.#port.postMessage([{ id: answer.id, error: reason } satisfies PostedAnswer])
    }
  }
}
