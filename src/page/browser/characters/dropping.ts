import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { goTo } from '../base/route.ts'
import { may } from '../base/session.ts'
import { addFiles } from './imports.ts'

/** Whether files are dragged over the page, and the key may upload files. */
export const isOver = signal(false)

/** Accepts files that are dropped anywhere on the page, while the view is shown. */
export function useDropping(): void {
  useEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    addEventListener('dragenter', hold, { signal })
    addEventListener('dragover', hold, { signal })
    addEventListener('dragleave', leave, { signal })
    addEventListener('drop', drop, { signal })
    return () => {
      listening.abort()
      isOver.value = false
    }
  }, [])
}

/** Opens the import pane with these files. */
function importFiles(files: Iterable<File>): void {
  addFiles(files)
  goTo('characters', '', 'import')
}

function hold(event: DragEvent): void {
  if (!event.dataTransfer?.types.includes('Files')) return
  // By default the browser leaves the page and opens the file.
  event.preventDefault()
  event.dataTransfer.dropEffect = may('characters:write') ? 'copy' : 'none'
  isOver.value = may('characters:write')
}

/**
 * The event also comes when the pointer moves between two elements. `relatedTarget` is null only when the pointer leaves the
 * page.
 */
function leave({ relatedTarget }: DragEvent): void {
  if (relatedTarget === null) isOver.value = false
}

function drop(event: DragEvent): void {
  isOver.value = false
  if (!event.dataTransfer?.types.includes('Files')) return
  event.preventDefault()
  if (may('characters:write')) importFiles(event.dataTransfer.files)
}
