/** Dialogs over the page: `Dialog` for anything, `Confirm` for a change. */

import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApprovalRequested, can, type OperationId } from '../api.ts'
import { Problem } from './basics.tsx'
import { TextField, tellRequested, useSubmit } from './form.tsx'

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
    // While it is in the page: the browser then gives the focus back to where it was.
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
    <button type="button" onClick={onClose}>
      Close
    </button>
  </div>
)

interface ConfirmProps {
  /** On the button that sends it; the title, too, unless there is another one. */
  action: string
  title?: string
  /** The effect, the object, and whether it can be undone. */
  consequence?: ComponentChildren
  danger?: boolean
  /** Has to be typed first. */
  typed?: string
  onConfirm: () => Promise<unknown>
  onClose: () => void
  /** Fields, such as a reason, with the error of the last attempt. */
  children?: ComponentChildren | ((error: unknown) => ComponentChildren)
}

function unlessRequested(error: unknown): void {
  if (!(error instanceof ApprovalRequested)) throw error
  tellRequested()
}

/** Closes when the work is done, and shows its error otherwise. */
export function Confirm({ action, title = action, consequence, danger, typed, onClose, ...props }: ConfirmProps) {
  const { children, onConfirm } = props
  const [text, setText] = useState('')
  const { submit, error, isBusy } = useSubmit(() => onConfirm().catch(unlessRequested).then(onClose))
  return (
    <Dialog title={title} onClose={isBusy ? undefined : onClose}>
      <form onSubmit={submit}>
        {consequence !== undefined && <div class="consequence">{consequence}</div>}
        {typeof children === 'function' ? children(error) : children}
        {typed !== undefined && <TextField label={`Type ${typed} to confirm`} value={text} onChange={setText} />}
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose} disabled={isBusy}>
            Cancel
          </button>
          <button
            type="submit"
            class={danger ? 'danger' : 'primary'}
            disabled={isBusy || (typed !== undefined && text !== typed)}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

interface ActionProps extends Omit<ConfirmProps, 'onClose'> {
  /** The operation without which the button is not shown. */
  needs?: OperationId
  /** On the button, when it is not the action. */
  text?: string
  /** `danger` asks in the same colour. */
  kind?: 'primary' | 'danger' | 'small'
  disabled?: boolean
  /** Says to a screen reader what the button of a row concerns. */
  label?: string
  onOpen?: () => void
}

/** A button that asks in a dialog before it does anything. */
export function Action({ needs, text, kind, disabled, label, onOpen, ...confirm }: ActionProps) {
  const [isAsking, setAsking] = useState(false)
  if (needs !== undefined && !can(needs)) return null
  const open = () => {
    onOpen?.()
    setAsking(true)
  }
  return (
    <>
      <button type="button" class={kind} disabled={disabled} aria-label={label} onClick={open}>
        {text ?? confirm.action}
      </button>
      {isAsking && <Confirm danger={kind === 'danger'} {...confirm} onClose={() => setAsking(false)} />}
    </>
  )
}
