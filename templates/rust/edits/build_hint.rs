if cfg!(feature = "rocm") {
    println!("The feature `rocm` is on, but no AMD GPU was found");
} else {
    println!("To run on an AMD GPU, build this example with `--features rocm`");
}
