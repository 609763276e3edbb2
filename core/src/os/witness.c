// SPDX-License-Identifier: MIT
//
// Who else has our memory. The kernel counts the shared mappings of a file that may be written, for
// the sake of the seal F_SEAL_WRITE (memfd_create(2), fcntl(2)), which it refuses with EBUSY while
// there is one. fork copies each mapping, whoever asks for it and however, so that a memory file of
// ours, mapped at the time, tells of every child that has our memory, and of its children.
//
// Nothing else changes that count: not other readers of memory, nor merging, swap or migration,
// which move pages. The file has none: it is empty, so that nobody can make one by reading, and a
// page that is held for a moment would have the seal wait for up to a sixth of a second.
#include "os/fault.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

enum pw_os_made pw_os_witness_make(struct pw_os_witness *witness) {
    int saved = errno;
    bool limited = false;
    struct pw_os_file file = pw_os_sealable_file("pagewise-witness", &limited);
    void *page = MAP_FAILED;
    if (file.fd >= 0 && !PW_OS_FAULT(PW_SITE_WITNESS)) {
        // Not readable: whoever reads what may be read must not meet the end of the file.
        page = mmap(NULL, PW_PAGE, PROT_NONE, MAP_SHARED, file.fd, 0);
    }
    enum pw_os_made made = file.fd < 0          ? PW_OS_NO_DESCRIPTOR
                           : page == MAP_FAILED ? PW_OS_NO_MAPPING
                                                : PW_OS_MADE;
    if (made == PW_OS_NO_MAPPING) {
        pw_os_close(&file);
    }
    *witness = (struct pw_os_witness){file, made == PW_OS_MADE ? page : NULL};
    errno = saved;
    return made;
}

enum pw_os_seen pw_os_witness_ask(const struct pw_os_witness *witness) {
    if (!pw_os_is_ours(&witness->file)) {
        return PW_OS_LOST;
    }
    int saved = errno;
    errno = PW_OS_FAULT(PW_SITE_WITNESS_ASK);
    bool sealed = !errno && fcntl(witness->file.fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
    enum pw_os_seen seen = sealed           ? PW_OS_NOT_MAPPED
                           : errno == EBUSY ? PW_OS_MAPPED
                                            : PW_OS_NOT_TOLD;
    errno = saved;
    return seen;
}
