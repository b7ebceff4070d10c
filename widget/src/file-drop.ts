export const maxFileBytes = 10 * 1024 * 1024;

export interface FileDrop {
  over(event: DragEvent): void;
  leave(): void;
  drop(event: DragEvent): void;
}

/** Files that are dragged onto the chat; anything else that is dragged passes by. */
export function fileDrop(isWanted: () => boolean, onOver: (isOver: boolean) => void, onFiles: (files: File[]) => void): FileDrop {
  return {
    over(event) {
      if (!isWanted() || !event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      onOver(true);
    },
    leave: () => onOver(false),
    drop(event) {
      onOver(false);
      if (!isWanted() || !event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      onFiles([...event.dataTransfer.files]);
    },
  };
}
