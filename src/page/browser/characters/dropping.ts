import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { goTo } from '../base/route.ts'
import { may } from '../base/session.ts'
import { addFiles } from './imports.ts'

/** Whether files are held over the page, which would take them. */
export const isOver = signal(false)

/** Takes files that are dropped anywhere on the page, while the view is shown. */
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

/** Shows the place where cards are imported, and takes these. */
export function importFiles(files: Iterable<File>): void {
  addFiles(files)
  goTo('characters', '', 'import')
}

function hold(event: DragEvent): void {
  if (!event.dataTransfer?.types.includes('Files')) return
  // Without this the browser would leave the page for the file.
  event.preventDefault()
  event.dataTransfer.dropEffect = may('characters:write') ? 'copy' : 'none'
  isOver.value = may('characters:write')
}

/** Elements within the page are left for one another all the time; leaving the page leads to none. */
function leave({ relatedTarget }: DragEvent): void {
  if (relatedTarget === null) isOver.value = false
}

function drop(event: DragEvent): void {
  isOver.value = false
  if (!event.dataTransfer?.types.includes('Files')) return
  event.preventDefault()
  if (may('characters:write')) importFiles(event.dataTransfer.files)
}
