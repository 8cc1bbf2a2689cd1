/** The place of what is still loading: as high as it will be, so that nothing jumps. */

/** @param rows lines of text */
export const Skeleton = ({ rows = 4 }: { rows?: number }) => (
  <div class="skeleton" role="status">
    <span class="hidden">Loading …</span>
    {Array.from({ length: rows }, (_, index) => (
      <span key={index} class="line" aria-hidden="true" />
    ))}
  </div>
)
