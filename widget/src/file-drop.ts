export const maxFileBytes = 10 * 1024 * 1024;

export interface FileDrop {
  over(event: DragEvent): void;
  leave(): void;
  drop(event: DragEvent): void;
}

/** Event handlers for files that are dragged onto the chat. Anything else that is dragged is left to the browser. */
export function fileDrop(isEnabled: () => boolean, onOver: (isOver: boolean) => void, onFiles: (files: File[]) => void): FileDrop {
  return {
    over(event) {
      if (!isEnabled() || !event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      onOver(true);
    },
    leave: () => onOver(false),
    drop(event) {
      onOver(false);
      if (!isEnabled() || !event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      onFiles([...event.dataTransfer.files]);
    },
  };
}
