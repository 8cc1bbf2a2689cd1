/** Dialogs over the page: `Dialog` for anything, `Confirm` for a change. */

import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApprovalRequested, can, type OperationId } from '../api.ts'
import { Button, type ButtonProps, Problem } from './basics.tsx'
import {
  Fields,
  type FormFields,
  initialOf,
  TextField,
  tellRequested,
  useForm,
  useSubmit,
  type ValuesOf,
} from './form.tsx'
import { tell } from './page.tsx'

interface DialogProps {
  title: string
  /** Without it the dialog cannot be closed by Escape. */
  onClose?: (() => void) | undefined
  wide?: boolean
  children: ComponentChildren
}

export function Dialog({ title, onClose, wide = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    // It closes while it is in the page, so that the browser gives the focus back to where it was.
    return () => element?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      class={wide ? 'wide' : ''}
      aria-labelledby={id}
      onCancel={(event) => {
        if (event.target !== dialog.current) return
        event.preventDefault()
        onClose?.()
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}

/** Ends a dialog that only shows something. */
export const CloseButton = ({ onClose }: { onClose: () => void }) => (
  <div class="actions">
    <Button text="Close" onClick={onClose} />
  </div>
)

interface ConfirmProps<F extends FormFields, R> {
  /** The text of the button that sends it; the title, too, unless there is another one. */
  action: string
  title?: string
  /** The effect, the object, and whether it can be undone. A text alone is a paragraph. */
  consequence?: ComponentChildren
  danger?: boolean | ((values: ValuesOf<F>) => boolean)
  /** The user has to type it first. */
  typed?: string | undefined
  /** The fields of the dialog by their names, under which `onConfirm` gets their texts. */
  fields?: F
  onConfirm: (values: ValuesOf<F>) => Promise<R>
  /** The sentence for the user when it is done. */
  done?: string | ((reply: R) => string)
  onDone?: (reply: R) => void
  onClose: () => void
  /** More fields, with the error of the last attempt. */
  children?: ComponentChildren | ((error: unknown) => ComponentChildren)
}

function unlessRequested(error: unknown): void {
  if (!(error instanceof ApprovalRequested)) throw error
  tellRequested()
}

/** Closes when the work is done, and shows its error otherwise. */
export function Confirm<F extends FormFields, R>({ action, title = action, ...props }: ConfirmProps<F, R>) {
  const { consequence, danger, typed, fields = {} as F, onConfirm, done, onDone, onClose, children } = props
  const [text, setText] = useState('')
  const { values, change } = useForm(initialOf(fields))
  const work = async () => {
    const reply = await onConfirm(values)
    if (done !== undefined) tell(typeof done === 'string' ? done : done(reply))
    onDone?.(reply)
  }
  const { submit, error, isBusy } = useSubmit(() => work().catch(unlessRequested).then(onClose))
  const isDanger = typeof danger === 'function' ? danger(values) : danger
  return (
    <Dialog title={title} onClose={isBusy ? undefined : onClose}>
      <form onSubmit={submit}>
        {consequence !== undefined && (
          <div class="consequence">{typeof consequence === 'string' ? <p>{consequence}</p> : consequence}</div>
        )}
        <Fields fields={fields} values={values} onChange={change} error={error} />
        {typeof children === 'function' ? children(error) : children}
        {typed !== undefined && <TextField label={`Type ${typed} to confirm`} value={text} onChange={setText} />}
        <Problem error={error} />
        <div class="actions">
          <Button text="Cancel" onClick={onClose} disabled={isBusy} />
          <button
            type="submit"
            class={isDanger ? 'danger' : 'primary'}
            disabled={isBusy || (typed !== undefined && text !== typed)}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

interface ActionProps<F extends FormFields, R> extends Omit<ConfirmProps<F, R>, 'onClose'> {
  /** The operation without which the button is not shown. */
  needs?: OperationId
  /** The text of the button, when it is not the action. */
  text?: string
  /** `danger` asks in the same colour. */
  kind?: ButtonProps['kind']
  disabled?: boolean
  /** Says to a screen reader what the button of a row concerns. */
  label?: string | undefined
  /** The object of a button in a row: it is in its label and in the title. */
  of?: string
}

/** A button that asks in a dialog before it does anything. */
export function Action<F extends FormFields, R>({
  needs,
  text,
  kind,
  disabled,
  label,
  of,
  ...confirm
}: ActionProps<F, R>) {
  const [isAsking, setAsking] = useState(false)
  // The dialog goes with the role that may send it.
  if (needs !== undefined && !can(needs)) return null
  const { action } = confirm
  const title = of === undefined ? (confirm.title ?? action) : `${action} ${of}`
  return (
    <>
      <Button
        {...{ kind, disabled }}
        text={text ?? action}
        label={of === undefined ? label : title}
        onClick={() => setAsking(true)}
      />
      {isAsking && <Confirm danger={kind === 'danger'} {...confirm} title={title} onClose={() => setAsking(false)} />}
    </>
  )
}
