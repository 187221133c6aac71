/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The functions of dispatch.h as symbols that Rust can link (src/hot.rs). */
#define VTOPO_FN
#include "dispatch.h"
